package monitor

import "github.com/quark-linux/quark/internal/auditrule"

// auditRules names the rules of audit(8), which does not enable it. Without the privilege, or
// audit, there are none.
func auditRules() (names []string) {
	c, err := auditrule.Open()
	if err != nil {
		return nil
	}
	defer c.Close()
	rules, _ := c.Rules()
	for _, r := range rules {
		names = append(names, auditrule.Name(r))
	}
	return names
}
