package config

import (
	"net"
	"net/url"
	"strings"
)

const access = "Access"

func accessSettings(c *Config) []setting {
	return []setting{
		{access, "tokens", "", file(&c.Tokens), "tokens file; without it every caller is allowed; see token create"},
		{access, "jwt-keys", "", keySet(&c.JWTKeys), "JWKS for verifying JWTs: a file or https:// URL"},
		{access, "jwt-issuer", "", word("TEXT", "nothing, or the claim iss that a JWT has to have", &c.JWTIssuer, isClaim), "required claim iss of a JWT"},
		{access, "jwt-audience", "", word("TEXT", "nothing, or a value that the claim aud of a JWT has to have", &c.JWTAudience, isClaim), "required audience (claim aud) of a JWT"},
		{access, "audit-log", "", file(&c.AuditLog), "audit log of control calls and rejected calls, a line of JSON each; reopened when renamed"},
	}
}

func isClaim(s string) bool { return !strings.ContainsAny(s, "\x00\r\n") }

// keySet is a file, or a URL that nobody on the way can change.
func keySet(field *string) kind {
	return word("URL", "nothing, a path, an https:// URL, or an http:// URL of this host", field, func(s string) bool {
		if !strings.Contains(s, "://") {
			return !strings.ContainsRune(s, 0)
		}
		u, err := url.Parse(s)
		if err != nil || u.Host == "" || u.User != nil {
			return false
		}
		ip := net.ParseIP(u.Hostname())
		return u.Scheme == "https" || (u.Scheme == "http" && (u.Hostname() == "localhost" || (ip != nil && ip.IsLoopback())))
	})
}

// checkAccess returns the name of the first setting that contradicts another, and the expected value. It returns "" if
// none does, as the other checks do.
func (c Config) checkAccess() (name, want string) {
	jwt := c.JWTKeys != ""
	switch {
	case jwt && c.Tokens == "":
		return "tokens", "a tokens file beside jwt-keys: its entries with a claim say what a JWT may do"
	case jwt && c.JWTIssuer == "":
		return "jwt-issuer", "an issuer beside jwt-keys"
	case jwt && c.JWTAudience == "":
		return "jwt-audience", "an audience beside jwt-keys: a JWT for another service is not for this one"
	case !jwt && c.JWTIssuer+c.JWTAudience != "":
		return "jwt-keys", "keys beside jwt-issuer and jwt-audience"
	}
	return "", ""
}
