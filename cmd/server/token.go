package main

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"hindsight/cmd/server/internal/access"
	"hindsight/internal/auth"
)

type tokenFlags struct {
	file, name, role, certificate, claim string
	models                               []string
	expires                              time.Duration
	rate                                 float64
	concurrency                          int
}

// token adds an entry to the tokens file. A server with the file applies the change within two
// seconds.
func token(c call, now func() time.Time) int {
	const name = "token create"
	if len(c.args) == 0 || c.args[0] != "create" {
		return c.fail("token", callError{errors.New("want create; --help lists its flags")})
	}
	var f tokenFlags
	flags := pflag.NewFlagSet(name, pflag.ContinueOnError)
	flags.SetOutput(c.stderr)
	flags.StringVar(&f.file, "tokens", "", "the tokens file")
	flags.StringVar(&f.name, "name", "", "the name of the entry")
	flags.StringVar(&f.role, "role", "", "admin, write or read")
	flags.StringSliceVar(&f.models, "models", nil, "prefixes of the ids of the models that it may see; none is all models")
	flags.DurationVar(&f.expires, "expires", 0, "how long it is valid; 0 is without end")
	flags.Float64Var(&f.rate, "rate", 0, "maximum calls a second; 0 is no limit")
	flags.IntVar(&f.concurrency, "concurrency", 0, "maximum concurrent calls; 0 is no limit")
	flags.StringVar(&f.certificate, "certificate", "", "let in the client certificate of this name, and make no token")
	flags.StringVar(&f.claim, "claim", "", "let in JWTs with CLAIM=VALUE, and make no token")
	err := flags.Parse(c.args[1:])
	switch {
	case errors.Is(err, pflag.ErrHelp):
		return exitOK
	case err == nil && flags.NArg() > 0:
		err = fmt.Errorf("got the argument %q, want flags only", flags.Arg(0))
	case err == nil:
		err = notEmpty(flags)
	}
	if err != nil {
		return c.fail(name, callError{err})
	}
	if text, ok := c.env("HINDSIGHT_TOKENS"); ok && f.file == "" {
		f.file = text
	}
	err = errors.New("--tokens: want the tokens file")
	if f.file != "" {
		err = createToken(&f, now, c.stdout)
	}
	if err != nil {
		return c.fail(name, err)
	}
	return exitOK
}

// notEmpty rejects an empty flag, for example from an unset variable of the shell: --models ""
// would be all models.
func notEmpty(flags *pflag.FlagSet) (err error) {
	flags.Visit(func(flag *pflag.Flag) {
		if text := flag.Value.String(); text == "" || text == "[]" {
			err = fmt.Errorf("--%s: got nothing, want a value, or the flag left out", flag.Name)
		}
	})
	return err
}

// createToken adds an entry. It prints the token alone on the last line; the file has its hash.
func createToken(f *tokenFlags, now func() time.Time, stdout io.Writer) error {
	role, ok := auth.ParseRole(f.role)
	switch {
	case !ok:
		return fmt.Errorf("--role: got %q, want admin, write or read", f.role)
	case f.name == "":
		return errors.New("--name: want the name of the new entry")
	case f.expires != 0 && f.expires < time.Second:
		return fmt.Errorf("--expires: got %s, want a second or more, such as 720h", f.expires)
	case f.certificate != "" && f.claim != "":
		return errors.New("--certificate and --claim: want one of them")
	}
	e := &auth.Entry{Name: f.name, Role: role, Models: f.models, Certificate: f.certificate, Rate: f.rate, Concurrency: f.concurrency}
	if f.expires > 0 {
		e.NotAfter = now().Add(f.expires).Truncate(time.Second)
	}
	e.Claim, e.Value, _ = strings.Cut(f.claim, "=")
	secret := ""
	if f.certificate+f.claim == "" {
		secret = auth.NewToken()
		hash := auth.HashOf(secret)
		e.Hash = &hash
	}
	if err := access.Edit(f.file, func(file []byte) ([]byte, error) { return auth.Add(file, e) }); err != nil {
		return err
	}
	fmt.Fprintf(stdout, "%s: added %s with the role %s, %s.\n", f.file, f.name, role, whichModels(f.models))
	if secret != "" {
		fmt.Fprintf(stdout, "The token is shown only here. The file has its hash.\n%s\n", secret)
	}
	return nil
}

func whichModels(prefixes []string) string {
	if len(prefixes) == 0 {
		return "for all models"
	}
	return "for models that begin with " + strings.Join(prefixes, " or ")
}
