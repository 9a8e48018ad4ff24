package client

import (
	"encoding/json"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"queen/tools/cli"
)

// A waiting acquire asks again after lockPauseMin, then twice as long each time, up to lockPauseMax.
const (
	lockPauseMin = 100 * time.Millisecond
	lockPauseMax = time.Second
)

// lockNamespace has a key NAME#SLOT for each permit that is held.
const lockNamespace = "queen-locks"

func lockCommand(s cli.Streams) *cobra.Command {
	cmd := &cobra.Command{Use: "lock", Short: "Locks and semaphores with a lifetime and a fencing token"}
	cmd.AddCommand(lockAcquireCommand(s), lockRenewCommand(s), lockReleaseCommand(s), lockGetCommand(s), lockListCommand(s))
	return cmd
}

// lock sends one operation, prints its result, and exits with otherwise when the verdict is not true.
func (s *session) lock(out *cli.Printer[row], w cli.Write, op map[string]any, verdict string, otherwise int) error {
	if w.DryRun {
		return planned(out, op)
	}
	answer, err := s.operate("/api/v1/locks", op["op"] != "get", "", verdict, op)
	if err != nil {
		return err
	}
	return oneOr(out, answer, verdict, otherwise)
}

func lockAcquireCommand(s cli.Streams) *cobra.Command {
	var owner string
	var limit int
	var ttl, wait time.Duration
	var w cli.Write
	cmd := &cobra.Command{Use: "acquire NAME", Short: "Take a lock; exits 6 when it is held", Args: cobra.ExactArgs(1),
		Long: `Take a lock, or one of the --limit permits of a semaphore. The token of the answer renews and releases it.

With --owner a repeated call gives the same owner the permit that it already holds; without, one whose answer was lost
stays taken until its lifetime ends.`}
	w.DryRunFlag(cmd)
	f := cmd.Flags()
	f.DurationVar(&ttl, "ttl", 30*time.Second, "the lifetime, in whole seconds")
	f.StringVar(&owner, "owner", "", "who holds it, at most 256 bytes")
	f.IntVar(&limit, "limit", 1, "how many may hold it at the same time, 1 to 1024; everybody passes the same")
	f.DurationVar(&wait, "wait", 0, "ask again for so long while it is held")
	columns := []string{"=name", "acquired", "slot", "token", "expiresAt", "holders", "dryRun"}
	return rowCommand(s, cmd, "json", columns, func(s *session, out *cli.Printer[row], args []string) error {
		seconds, err := wholeSeconds("ttl", ttl)
		if err != nil {
			return err
		}
		if wait < 0 {
			return cli.Errorf(cli.Usage, "--wait is at least 0")
		}
		op := map[string]any{"op": "acquire", "name": args[0], "ttlSeconds": seconds, "limit": limit}
		if owner != "" {
			op["owner"] = owner
		}
		if w.DryRun {
			return planned(out, op)
		}
		return s.acquire(out, op, wait)
	})
}

func (s *session) acquire(out *cli.Printer[row], op map[string]any, wait time.Duration) error {
	end := time.Now().Add(wait)
	for pause := lockPauseMin; ; pause = min(2*pause, lockPauseMax) {
		answer, err := s.operate("/api/v1/locks", true, "", "acquired", op)
		if err != nil {
			return err
		}
		acquired, left := answer.Is("acquired"), time.Until(end)
		if acquired || left <= 0 {
			return oneOr(out, answer, "acquired", cli.Partly)
		}
		select {
		case <-s.Ctx.Done():
			return cli.Exit(cli.Interrupted)
		case <-time.After(min(pause, left)):
		}
	}
}

// held are the flags that name a permit.
type held struct {
	token uint64
	slot  int
}

func (h *held) flags(cmd *cobra.Command) {
	cmd.Flags().Uint64Var(&h.token, "token", 0, "the token that the permit came with")
	cmd.Flags().IntVar(&h.slot, "slot", 0, "the permit of a semaphore, as acquire told it")
	required(cmd, "token")
}

func lockRenewCommand(s cli.Streams) *cobra.Command {
	var h held
	var w cli.Write
	var ttl time.Duration
	var owner string
	cmd := &cobra.Command{Use: "renew NAME", Short: "Begin a lock's lifetime anew, for a new token; exits 6 when it is lost",
		Args: cobra.ExactArgs(1)}
	h.flags(cmd)
	w.DryRunFlag(cmd)
	cmd.Flags().DurationVar(&ttl, "ttl", 30*time.Second, "the lifetime, in whole seconds")
	cmd.Flags().StringVar(&owner, "owner", "", "who holds it: carries a renewal through whose earlier answer was lost")
	columns := []string{"=name", "renewed", "slot", "token", "expiresAt", "reason", "dryRun"}
	return rowCommand(s, cmd, "json", columns, func(s *session, out *cli.Printer[row], args []string) error {
		seconds, err := wholeSeconds("ttl", ttl)
		if err != nil {
			return err
		}
		op := map[string]any{"op": "renew", "name": args[0], "token": h.token, "slot": h.slot, "ttlSeconds": seconds}
		if owner != "" {
			op["owner"] = owner
		}
		return s.lock(out, w, op, "renewed", cli.Partly)
	})
}

func lockReleaseCommand(s cli.Streams) *cobra.Command {
	var h held
	var w cli.Write
	cmd := &cobra.Command{Use: "release NAME", Short: "Give a lock back; exits 6 when it is lost", Args: cobra.ExactArgs(1)}
	h.flags(cmd)
	w.DryRunFlag(cmd)
	columns := []string{"=name", "released", "slot", "reason", "holders", "dryRun"}
	return rowCommand(s, cmd, "json", columns, func(s *session, out *cli.Printer[row], args []string) error {
		op := map[string]any{"op": "release", "name": args[0], "token": h.token, "slot": h.slot}
		return s.lock(out, w, op, "released", cli.Partly)
	})
}

func lockGetCommand(s cli.Streams) *cobra.Command {
	cmd := &cobra.Command{Use: "get NAME", Short: "Show who holds a lock; exits 4 when nobody does", Args: cobra.ExactArgs(1)}
	return rowCommand(s, cmd, "json", []string{"=name", "held", "holders"}, func(s *session, out *cli.Printer[row], args []string) error {
		return s.lock(out, cli.Write{}, map[string]any{"op": "get", "name": args[0]}, "held", cli.Nothing)
	})
}

func lockListCommand(s cli.Streams) *cobra.Command {
	var limit int
	cmd := &cobra.Command{Use: "list [PREFIX]", Short: "List the permits of locks that are held, by name and slot", Args: cobra.MaximumNArgs(1)}
	cmd.Flags().IntVarP(&limit, "limit", "n", 0, "end after so many permits; 0: all")
	columns := []string{"=name", "slot", "owner", "token", "since", "+renewedAt", "expiresAt"}
	return rowCommand(s, cmd, "ndjson", columns, func(s *session, out *cli.Printer[row], args []string) error {
		body := map[string]any{"namespace": lockNamespace}
		if len(args) == 1 {
			body["prefix"] = args[0]
		}
		page := func(limit int, after string) request {
			body["limit"], body["after"] = limit, after
			return request{Method: http.MethodPost, Path: "/api/v1/resources/kv/list", Body: body}
		}
		return s.eachPage(limit, "", page, func(keys []row, _ row) error {
			for _, key := range keys {
				if permit := permitOf(key); permit != nil {
					if err := out.Add(permit); err != nil {
						return err
					}
				}
			}
			return nil
		})
	})
}

// permitOf tells about a permit in the words of lock get; nil for a key that is none.
func permitOf(key row) row {
	name, slot, _ := strings.Cut(key.Text("key"), "#")
	n, err := strconv.ParseUint(slot, 10, 32)
	var held struct{ Owner, Since json.RawMessage }
	if err != nil || json.Unmarshal(key["value"], &held) != nil {
		return nil
	}
	permit := row{"owner": held.Owner, "since": held.Since, "token": key["version"], "renewedAt": key["updatedAt"], "expiresAt": key["expiresAt"]}
	permit.Set("name", name)
	permit.Set("slot", n)
	return permit
}
