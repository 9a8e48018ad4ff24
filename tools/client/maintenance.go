package client

import (
	"net/http"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"queen/tools/cli"
)

// switchesPath is the route of the switches that maintenance throws.
const switchesPath = "/api/v1/system/kv-timers"

// switched are what maintenance can pause: the word, the member that throws the switch, and the one that tells it.
var switched = []struct{ word, throw, tell, what string }{
	{"kv", "kv", "kvEnabled", "puts and increments of keys"},
	{"timers-schedule", "timersSchedule", "timersScheduleEnabled", "new and changed timers"},
	{"timers-fire", "timersFire", "timersFireEnabled", "the firing of timers"},
}

// switchedWords are the arguments that on and off take.
func switchedWords() (words []string) {
	for _, x := range switched {
		words = append(words, x.word)
	}
	return words
}

var maintenanceColumns = []string{"maintenance", "kvEnabled", "timersScheduleEnabled", "timersFireEnabled", "dryRun"}

func maintenanceCommand(s cli.Streams) *cobra.Command {
	cmd := &cobra.Command{Use: "maintenance", Short: "Pause and resume writes of keys and timers, for every tenant"}
	cmd.AddCommand(maintenanceGet(s), maintenanceThrow(s, "on", "Pause", false), maintenanceThrow(s, "off", "Resume", true))
	return cmd
}

func maintenanceGet(s cli.Streams) *cobra.Command {
	cmd := &cobra.Command{Use: "get", Short: "Show what is paused", Args: cobra.NoArgs}
	return rowCommand(s, cmd, "json", maintenanceColumns, func(s *session, out *cli.Printer[row], _ []string) error {
		return s.maintenance(out, get(switchesPath))
	})
}

// maintenanceThrow is "maintenance on", after which what is named is disabled, or off.
func maintenanceThrow(s cli.Streams, use, verb string, enabled bool) *cobra.Command {
	words := switchedWords()
	long := verb + " families of calls, for every tenant; without an argument all of them:\n"
	for _, x := range switched {
		long += "\n  " + x.word + strings.Repeat(" ", 17-len(x.word)) + x.what
	}
	cmd := &cobra.Command{Use: use + " [" + strings.Join(words, "|") + "]...", Short: verb + " families of calls; without an argument all of them",
		Long: long + "\n\nCalls of a paused family are refused as paused. Timers that come due meanwhile fire later; reads and deletes go on.",
		Args: cobra.ArbitraryArgs, ValidArgs: words}
	var w cli.Write
	w.DryRunFlag(cmd)
	return rowCommand(s, cmd, "json", maintenanceColumns, func(s *session, out *cli.Printer[row], args []string) error {
		body := map[string]any{}
		for _, x := range switched {
			if len(args) == 0 || slices.Contains(args, x.word) {
				body[x.throw] = enabled
			}
		}
		for _, arg := range args {
			if !slices.Contains(words, arg) {
				return cli.Errorf(cli.Usage, "there is no %s to pause: want %s", arg, strings.Join(words, ", "))
			}
		}
		if w.DryRun {
			plan := map[string]any{}
			for _, x := range switched {
				if _, named := body[x.throw]; named {
					plan[x.tell] = enabled
				}
			}
			return planned(out, plan)
		}
		return s.maintenance(out, request{Method: http.MethodPost, Path: switchesPath, Write: true, Body: body})
	})
}

// maintenance makes a call that answers the switches, and prints them with whether one is off.
func (s *session) maintenance(out *cli.Printer[row], r request) error {
	answer, err := s.Ask(r, switched[0].tell)
	if err != nil {
		return err
	}
	paused := false
	for _, x := range switched {
		paused = paused || !answer.Is(x.tell)
	}
	answer.Set("maintenance", paused)
	return out.One(answer)
}
