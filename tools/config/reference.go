package config

// SettingInfo is one setting, for documentation.
type SettingInfo struct {
	Key, Flag, Env, Default, Usage string
	Secret                         bool
}

// Reference lists every setting in the order of the help.
func Reference() (out []SettingInfo) {
	for i := range settings {
		s := &settings[i]
		info := SettingInfo{Key: s.key, Default: s.def, Usage: s.usage, Secret: s.secret}
		if s.takes(fromFlag) {
			info.Flag = "--" + s.flagName()
		}
		if s.takes(fromEnv) {
			info.Env = s.envName()
		}
		out = append(out, info)
	}
	return out
}
