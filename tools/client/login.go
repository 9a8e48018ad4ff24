package client

import (
	"cmp"
	"errors"
	"fmt"
	"net/http"
	"os"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"queen/tools/cli"
	"queen/tools/remote"
)

// AuthCommands are those about the caller's own token: login, logout and token.
func AuthCommands(s cli.Streams) []*cobra.Command {
	return []*cobra.Command{loginCommand(s), logoutCommand(s), tokenCommand(s)}
}

// tokenSource is what login and logout print: where a context has its token from.
type tokenSource struct {
	Context string `json:"context"`
	URL     string `json:"url"`
	Token   string `json:"token"`
	DryRun  bool   `json:"dryRun,omitempty"`
}

var sourceColumns = []cli.Column[tokenSource]{
	{Head: "context", Key: true, Cell: func(l tokenSource) string { return l.Context }},
	{Head: "url", Cell: func(l tokenSource) string { return l.URL }},
	{Head: "token", Cell: func(l tokenSource) string { return l.Token }, Help: "where it is read from; never the token itself"},
}

// completeContext offers the contexts of the user's file.
func completeContext(s cli.Streams) remote.Completion {
	return arguments(func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
		return remote.ContextNames(s), cobra.ShellCompDirectiveNoFileComp
	})
}

// login is what a login keeps, and for which node.
type login struct {
	remote.Context
	dryRun, keyring bool
}

func loginCommand(s cli.Streams) *cobra.Command {
	var w cli.Write
	var l login
	cmd := &cobra.Command{Use: "login CONTEXT", Short: "Keep a token for a context", Args: cobra.ExactArgs(1),
		Long: `Check a token with the node and keep it for CONTEXT, which is made if --url names its node, and becomes the current
one. With --token-from the context names that source. Without, the token is asked for, or read from standard input, and
kept in a file that only you can read, with --keyring in the keyring of your system; the context names the place.`,
		ValidArgsFunction: completeContext(s)}
	f := cmd.Flags()
	f.StringVar(&l.URL, "url", "", "the node's address; default: that of the context")
	f.StringVar(&l.CA, "ca", "", "PEM file of the authorities that certificates of https come from; default: that of the context")
	f.StringVar(&l.Token, "token-from", "", "where the token is: "+remote.TokenSources)
	f.BoolVar(&l.keyring, "keyring", false, "keep the token in the keyring of your system instead of a file")
	w.DryRunFlag(cmd)
	return cli.Command(s, cmd, "json", sourceColumns, func(inv *cli.Invocation, out *cli.Printer[tokenSource], args []string) error {
		l.Name, l.dryRun = args[0], w.DryRun
		return l.run(inv, out)
	})
}

func (l *login) run(inv *cli.Invocation, out *cli.Printer[tokenSource]) error {
	switch {
	case l.Name == "":
		return cli.Errorf(cli.Usage, "a context has a name")
	case l.keyring && l.Token != "":
		return cli.Errorf(cli.Usage, "--keyring is a place to keep a token in: one of --token-from stays where it is")
	case l.keyring:
		if err := remote.CheckKeyring(inv.Streams); err != nil {
			return err
		}
	}
	file, err := remote.LoadContexts(inv.Streams)
	if err != nil {
		return err
	}
	before := "" // where the context has its token
	if known, err := file.Get(l.Name); err == nil {
		before = known.Token
		if l.URL == "" {
			l.URL = known.URL
		}
		if l.URL == known.URL {
			l.CA, l.MCP = cmp.Or(l.CA, known.CA), known.MCP
		}
	} else if l.URL == "" {
		return cli.Errorf(cli.Usage, "there is no context %s: name its node with --url", l.Name)
	}
	token, err := l.read(inv)
	if err != nil {
		return err
	}
	if err := l.check(inv, token); err != nil {
		return err
	}
	row := tokenSource{Context: l.Name, URL: l.URL, Token: l.Token, DryRun: l.dryRun}
	if l.dryRun {
		return out.One(row)
	}
	kept := l.Token == ""
	if kept {
		if l.Token, err = l.keep(inv, token); err != nil {
			return err
		}
		row.Token = l.Token
	}
	file.Put(l.Context)
	file.Current = l.Name
	if err := file.Save(inv.Streams); err != nil {
		return err
	}
	if kept { // what --token-from names may stand in a place of ours, by another name of it
		if err := remote.ForgetToken(inv.Ctx, inv.Streams, l.Name, before, l.Token); err != nil {
			inv.Say("the token that was kept before is still there: %v", err)
		}
	}
	return out.One(row)
}

// keep stores the token and returns the source that names it.
func (l *login) keep(inv *cli.Invocation, token string) (source string, err error) {
	if l.keyring {
		return remote.KeepInKeyring(inv.Ctx, inv.Streams, l.Name, token)
	}
	return remote.KeepToken(inv.Streams, l.Name, token)
}

// read reads the token from its source, or asks for it.
func (l *login) read(inv *cli.Invocation) (string, error) {
	if l.Token != "" {
		return remote.ReadToken(inv.Ctx, inv.Streams, l.Token)
	}
	var b []byte
	var err error
	if in, ok := inv.In.(*os.File); ok && cli.Terminal(in) {
		fmt.Fprintf(inv.Err, "Token for %s: ", l.URL)
		b, err = readSecret(inv, int(in.Fd()))
		fmt.Fprintln(inv.Err)
	} else {
		b, err = readBounded(inv.Input())
	}
	if err != nil {
		return "", inv.BadInput(err)
	}
	return remote.CheckToken(b)
}

// readSecret reads a line that the terminal does not show. An interrupt ends it and leaves the terminal as it was.
func readSecret(inv *cli.Invocation, terminal int) ([]byte, error) {
	before, err := term.GetState(terminal)
	if err != nil {
		return nil, err
	}
	type answer struct {
		line []byte
		err  error
	}
	read := make(chan answer, 1)
	go func() {
		line, err := term.ReadPassword(terminal)
		read <- answer{line, err}
	}()
	select {
	case a := <-read:
		return a.line, a.err
	case <-inv.Ctx.Done():
		return nil, errors.Join(inv.Ctx.Err(), term.Restore(terminal, before))
	}
}

// check asks the node whether it knows the token. One that may not read is known all the same.
func (l *login) check(inv *cli.Invocation, token string) error {
	if err := remote.CheckURL(l.URL); err != nil {
		return err
	}
	api, err := remote.NewAPI(&remote.Target{URL: l.URL, CA: l.CA}, token)
	if err != nil {
		return err
	}
	c := remote.Conn{Invocation: inv, API: api}
	_, err = c.Ask(get("/api/v1/resources/overview"), "queues")
	if remote.Status(err) == http.StatusForbidden {
		return nil
	}
	return err
}

func logoutCommand(s cli.Streams) *cobra.Command {
	var w cli.Write
	cmd := &cobra.Command{Use: "logout [CONTEXT]", Short: "Forget the token of a context; exits 4 when it has none", Args: cobra.MaximumNArgs(1),
		Long:              "Forget the token of CONTEXT, or of the current one. What login kept, in a file or in the keyring, is removed.",
		ValidArgsFunction: completeContext(s)}
	w.DryRunFlag(cmd)
	return cli.Command(s, cmd, "json", sourceColumns, func(inv *cli.Invocation, out *cli.Printer[tokenSource], args []string) error {
		file, err := remote.LoadContexts(inv.Streams)
		if err != nil {
			return err
		}
		name := ""
		if len(args) == 1 {
			name = args[0]
		}
		c, err := file.Get(name)
		switch {
		case err != nil:
			return err
		case c == nil || c.Token == "":
			return cli.Exit(cli.Nothing)
		}
		if !w.DryRun {
			source := c.Token
			if err := remote.ForgetToken(inv.Ctx, inv.Streams, c.Name, source, ""); err != nil {
				return err
			}
			c.Token = ""
			if err := file.Save(inv.Streams); err != nil {
				return err
			}
		}
		return out.One(tokenSource{Context: c.Name, URL: c.URL, Token: c.Token, DryRun: w.DryRun})
	})
}

// shownToken is the token that a command would send.
type shownToken struct {
	Token   string `json:"token"`
	URL     string `json:"url"`
	Context string `json:"context,omitempty"`
}

var shownColumns = []cli.Column[shownToken]{
	{Head: "token", Key: true, Cell: func(t shownToken) string { return t.Token }},
	{Head: "url", Wide: true, Cell: func(t shownToken) string { return t.URL }, Help: "the node that it would be sent to"},
	{Head: "context", Wide: true, Cell: func(t shownToken) string { return t.Context }},
}

func tokenCommand(s cli.Streams) *cobra.Command {
	var c remote.Connection
	cmd := &cobra.Command{Use: "token", Short: "Print the token that a command with the same flags would send; exits 4 when there is none",
		Args: cobra.NoArgs}
	c.Flags(s, cmd)
	return cli.Command(s, cmd, "name", shownColumns, func(inv *cli.Invocation, out *cli.Printer[shownToken], _ []string) error {
		target, err := c.Resolve(inv.Streams)
		if err != nil {
			return err
		}
		token, err := target.Token(inv)
		if err != nil {
			return err
		}
		if token == "" {
			return cli.Exit(cli.Nothing)
		}
		return out.One(shownToken{Token: token, URL: target.URL, Context: target.Context})
	})
}
