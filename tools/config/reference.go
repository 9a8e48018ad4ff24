package config

// SettingInfo is one setting, for documentation.
type SettingInfo struct {
	Key, Flag, Env, Default, Usage string
	Secret                         bool
	// Unbuilt names the part without which the setting is refused; "" for a setting that works.
	Unbuilt string
}

// Reference lists every setting in the order of the help.
func Reference() (out []SettingInfo) {
	for i := range settings {
		s := &settings[i]
		info := SettingInfo{Key: s.key, Default: s.def, Usage: s.usage, Secret: s.secret, Unbuilt: s.feature}
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
