package metrics

// AuditStats is what the tokens file and the audit log say of themselves at one moment.
type AuditStats struct {
	// Entries are those of the tokens file.
	Entries int
	// Failures counts lines of the audit log that could not be written, Omitted refusals
	// that came too fast for it.
	Failures, Omitted uint64
}

func (AuditStats) rows() []row[AuditStats] {
	return []row[AuditStats]{
		{"hindsight_auth_entries", "Entries of the tokens file.", gauge, func(s AuditStats) float64 { return float64(s.Entries) }},
		{"hindsight_audit_failures_total", "Lines of the audit log that could not be written.", counter, func(s AuditStats) float64 { return float64(s.Failures) }},
		{"hindsight_audit_omitted_total", "Refusals that came too fast for the audit log.", counter, func(s AuditStats) float64 { return float64(s.Omitted) }},
	}
}
