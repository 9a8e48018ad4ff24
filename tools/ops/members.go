package ops

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"queen/tools/cli"
	"queen/tools/remote"
)

// memberRow is a node of a cluster as another one knows it. What one that did not answer lately would say is null.
type memberRow struct {
	Node     uint64 `json:"node"`
	Address  string `json:"address"`
	Votes    bool   `json:"votes"`
	Heard    bool   `json:"heard"`
	Draining bool   `json:"draining"`
	// LeadsGroups are the raft groups that it leads, as the node that was asked hears; the rest is of group 1.
	LeadsGroups []uint64 `json:"leadsGroups"`

	Leads   *bool   `json:"leads"`
	Term    *uint64 `json:"term"`
	Applied *uint64 `json:"applied"`
	Last    *uint64 `json:"last"`
	Behind  *uint64 `json:"behind"`
	Mark    *uint64 `json:"mark"`
}

var memberColumns = []cli.Column[memberRow]{
	{Head: "node", Cell: func(m memberRow) string { return count(m.Node) }, Key: true},
	{Head: "address", Cell: func(m memberRow) string { return m.Address }, Help: "raft's"},
	{Head: "votes", Cell: func(m memberRow) string { return yesNo(m.Votes) }, Help: "no is one that only follows"},
	{Head: "heard", Cell: func(m memberRow) string { return yesNo(m.Heard) }, Tone: func(m memberRow) cli.Tone {
		if m.Heard {
			return cli.Plain
		}
		return cli.Bad
	}, Help: "it answered when it was last asked, about a second ago"},
	{Head: "draining", Cell: func(m memberRow) string { return yesNo(m.Draining) }, Help: "an operator has it drain: it leads only while no other voter can"},
	{Head: "leads", Cell: func(m memberRow) string { return text(m.Leads) }, Help: "the first raft group"},
	{Head: "leads groups", Cell: func(m memberRow) string { return strings.Trim(fmt.Sprint(m.LeadsGroups), "[]") }, Wide: true,
		Help: "the raft groups that it leads, as the node that was asked hears"},
	{Head: "term", Cell: func(m memberRow) string { return text(m.Term) }, Wide: true},
	{Head: "applied", Cell: func(m memberRow) string { return text(m.Applied) }, Help: "entries"},
	{Head: "behind", Cell: func(m memberRow) string { return text(m.Behind) }, Help: "entries that the furthest node had applied and it had not"},
}

func membersOf(c *remote.Conn) ([]memberRow, error) {
	var a struct{ Members []memberRow }
	if err := get(c, "/api/v1/raft/members", nil, &a); err != nil {
		return nil, err
	}
	return a.Members, expect(c, a.Members, "members")
}

// MembersCommand is "queen cluster members", which asks one node over HTTP where the other commands ask each node.
func MembersCommand(s cli.Streams) *cobra.Command {
	cmd := &cobra.Command{Use: "members", Short: "The members of a cluster as one node knows them", Args: cobra.NoArgs,
		Long: `The members of a cluster as one node knows them, which is asked over HTTP (--url, --context): who votes, who leads, and what each
said when it was last asked. Exits 4 when the node is a single one.`}
	return remote.Command(s, cmd, "json", memberColumns, func(c *remote.Conn, out *cli.Printer[memberRow], _ []string) error {
		all, err := membersOf(c)
		if err != nil {
			return err
		}
		if err := out.AddAll(all); err != nil {
			return err
		}
		if len(all) == 0 {
			return cli.Exit(cli.Nothing)
		}
		return nil
	})
}
