package config

// Setting is one row of the table of settings, for the reference.
type Setting struct{ Group, Name, Standard, Placeholder, Want, Usage string }

// Settings is the table.
func Settings() []Setting {
	var rows []Setting
	for _, s := range settings(new(Config)) {
		rows = append(rows, Setting{s.group, s.name, s.standard, s.placeholder, s.want, s.usage})
	}
	return rows
}
