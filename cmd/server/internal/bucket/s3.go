package bucket

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"strings"

	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"
)

type s3 struct {
	client       *minio.Client
	name, prefix string
}

// openS3 opens s3://BUCKET?prefix=P/&region=R&endpoint=URL&use_path_style=BOOL&profile=NAME. It sends nothing.
func openS3(address string) (*s3, error) {
	u, err := url.Parse(address)
	if err != nil || u.Host == "" || strings.Trim(u.Path, "/") != "" {
		return nil, errors.New("want s3://BUCKET, or s3://BUCKET?prefix=P/")
	}
	b := &s3{name: u.Host}
	endpoint, profile := "https://s3.amazonaws.com", ""
	o := minio.Options{Region: cmp.Or(os.Getenv("AWS_REGION"), os.Getenv("AWS_DEFAULT_REGION"))}
	for key, values := range u.Query() {
		value := values[0]
		switch key {
		case "prefix":
			b.prefix = value
		case "region":
			o.Region = value
		case "endpoint":
			endpoint = value
		case "profile":
			profile = value
		case "use_path_style":
			path, err := strconv.ParseBool(value)
			if err != nil {
				return nil, fmt.Errorf("use_path_style is %q, want true or false", value)
			}
			if o.BucketLookup = minio.BucketLookupDNS; path {
				o.BucketLookup = minio.BucketLookupPath
			}
		default:
			return nil, fmt.Errorf("unknown parameter %q, want prefix, region, endpoint, use_path_style or profile", key)
		}
	}
	at, err := url.Parse(endpoint)
	if err != nil || at.Host == "" || at.Scheme != "http" && at.Scheme != "https" || strings.Trim(at.Path, "/") != "" {
		return nil, fmt.Errorf("endpoint is %q, want http://HOST or https://HOST", endpoint)
	}
	o.Secure = at.Scheme == "https"
	o.Creds = credentials.New(&ambient{credentials.Chain{Providers: []credentials.Provider{
		&credentials.EnvAWS{}, &credentials.FileAWSCredentials{Profile: profile}, &credentials.IAM{Region: o.Region},
	}}})
	if b.client, err = minio.New(at.Host, &o); err != nil {
		return nil, fmt.Errorf("endpoint %s: %w", endpoint, err)
	}
	return b, nil
}

// ambient is the chain of the places of credentials. A chain without any would send unsigned requests.
type ambient struct{ credentials.Chain }

var errNoCredentials = errors.New("no credentials of AWS: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, " +
	"a credentials file with AWS_PROFILE, or a role of the machine")

func (a *ambient) RetrieveWithCredContext(c *credentials.CredContext) (credentials.Value, error) {
	v, err := a.Chain.RetrieveWithCredContext(c)
	if err == nil && v.AccessKeyID == "" {
		err = errNoCredentials
	}
	return v, err //nolint:wrapcheck // The calls of s3 wrap it.
}

func (b *s3) Each(ctx context.Context, prefix string, f func(Object)) error {
	return b.list(ctx, minio.ListObjectsOptions{Prefix: b.prefix + prefix, Recursive: true}, f)
}

func (b *s3) Prefixes(ctx context.Context, prefix string) (out []string, err error) {
	err = b.list(ctx, minio.ListObjectsOptions{Prefix: b.prefix + prefix}, func(o Object) {
		if strings.HasSuffix(o.Key, "/") {
			out = append(out, o.Key)
		}
	})
	return out, err
}

func (b *s3) list(ctx context.Context, o minio.ListObjectsOptions, f func(Object)) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel() // It ends a list that is left early.
	for object := range b.client.ListObjectsIter(ctx, b.name, o) {
		if object.Err != nil {
			return fmt.Errorf("list %s: %w", o.Prefix, object.Err)
		}
		f(Object{strings.TrimPrefix(object.Key, b.prefix), object.Size})
	}
	if err := context.Cause(ctx); err != nil {
		return fmt.Errorf("list %s: %w", o.Prefix, err)
	}
	return nil
}

func (b *s3) Read(ctx context.Context, key string) (io.ReadCloser, error) {
	core := minio.Core{Client: b.client} // The client itself asks at the first read only.
	body, _, _, err := core.GetObject(ctx, b.name, b.prefix+key, minio.GetObjectOptions{})
	return body, wrap(err)
}

func (b *s3) Write(ctx context.Context, key string, from io.Reader, size int64) error {
	return b.put(ctx, key, from, size, minio.PutObjectOptions{})
}

func (b *s3) Create(ctx context.Context, key string, from io.Reader, size int64) error {
	o := minio.PutObjectOptions{}
	o.SetMatchETagExcept("*")
	return b.put(ctx, key, from, size, o)
}

// put sends the digest of each request, and no trailing checksums, which some servers reject.
func (b *s3) put(ctx context.Context, key string, from io.Reader, size int64, o minio.PutObjectOptions) error {
	o.SendContentMd5, o.DisableContentSha256 = true, true
	if strings.HasSuffix(key, ".json") {
		o.ContentType = "application/json"
	}
	_, err := b.client.PutObject(ctx, b.name, b.prefix+key, from, size, o)
	return wrap(err)
}

func (b *s3) Delete(ctx context.Context, key string) error {
	return wrap(b.client.RemoveObject(ctx, b.name, b.prefix+key, minio.RemoveObjectOptions{}))
}

// Sync does nothing: S3 answers once an object is durable.
func (*s3) Sync() error { return nil }

func wrap(err error) error {
	switch answer := minio.ToErrorResponse(err); {
	case answer.Code == minio.NoSuchKey:
		return fmt.Errorf("%w: %w", ErrNotFound, err)
	case answer.StatusCode == http.StatusPreconditionFailed:
		return fmt.Errorf("%w: %w", ErrExists, err)
	}
	return err
}
