package metrics

// AuthStats is what authentication says of itself at one moment.
type AuthStats struct {
	// Accepted counts the calls of known principals that their role allows,
	// Unauthenticated those without a good token or certificate, Forbidden those
	// that the role or the scope does not allow, Limited those beyond the rate or the
	// concurrency of their principal.
	Accepted, Unauthenticated, Forbidden, Limited uint64
	// Logins counts the sessions of the console that were begun, LoginFailures those
	// that were refused.
	Logins, LoginFailures uint64
	// Reloads counts the token files and key sets that were read again and taken,
	// ReloadFailures those that could not be.
	Reloads, ReloadFailures uint64
}

func (AuthStats) rows() []row[AuthStats] {
	return []row[AuthStats]{
		{"hindsight_auth_accepted_total", "Calls of known principals that their role allows.", counter, func(s AuthStats) float64 { return float64(s.Accepted) }},
		{"hindsight_auth_unauthenticated_total", "Calls without a good token or certificate.", counter, func(s AuthStats) float64 { return float64(s.Unauthenticated) }},
		{"hindsight_auth_forbidden_total", "Calls that the role or the scope of their principal does not allow.", counter, func(s AuthStats) float64 { return float64(s.Forbidden) }},
		{"hindsight_auth_limited_total", "Calls beyond the rate or the concurrency of their principal.", counter, func(s AuthStats) float64 { return float64(s.Limited) }},
		{"hindsight_auth_logins_total", "Sessions of the console that were begun.", counter, func(s AuthStats) float64 { return float64(s.Logins) }},
		{"hindsight_auth_login_failures_total", "Sessions of the console that were refused.", counter, func(s AuthStats) float64 { return float64(s.LoginFailures) }},
		{"hindsight_auth_reloads_total", "Token files and key sets that were read again and taken.", counter, func(s AuthStats) float64 { return float64(s.Reloads) }},
		{"hindsight_auth_reload_failures_total", "Token files and key sets that could not be read again; the ones before stay.", counter, func(s AuthStats) float64 { return float64(s.ReloadFailures) }},
	}
}
