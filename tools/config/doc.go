// Package config turns flags, environment, a YAML file and defaults into one struct, and can say where each value came
// from.
//
// One table (settings.go) holds every setting: its key, default, meaning and the field it fills. The names elsewhere
// follow from the key: "kafka.advertised" is the flag --kafka-advertised, the environment name
// QUEEN_KAFKA_ADVERTISED and the key kafka.advertised (flat or nested) in the file. A flag wins over the environment,
// the environment over the file, the file over the default.
//
// Nothing is guessed. An unknown key or QUEEN_ name, a value that does not parse and a listener that strangers could
// reach all stop the boot with a line that says what to do. A second table (upstream.go) holds the environment names that
// Queen MQ documents: each is translated, or reported once as having no meaning here.
//
// The package opens no listener and no data directory, and reads no environment by itself: Load is handed everything.
// It keeps no global state and may be used from any goroutine.
//
// Read first: Config, Load, Resolved.
package config
