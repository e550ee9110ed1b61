// Package selection has the options that choose a backend and events. quark-mon and quark-export
// share them:
//
//	o := new(selection.Options)
//	c := command.New(&cobra.Command{..., RunE: func(c *cobra.Command, _ []string) error {
//		if err := o.Finish(c); err != nil {
//			return err
//		}
//		q, err := quark.Open(o.Queue)
//		...
//	}},
//		command.Group{"Where events come from", o.Backend},
//		command.Group{"Which events", o.Events},
//		command.Group{"Which of them are shown", o.Filter},
//		command.Group{"How events are joined", o.Joining})
//
// A command that reads a recording adds neither Backend nor Events.
package selection
