package mysqlx

import "testing"

func TestGrantsHasTrigger(t *testing.T) {
	t.Parallel()
	for grant, want := range map[string]bool{
		"GRANT ALL PRIVILEGES ON *.* TO `root`@`localhost` WITH GRANT OPTION": true,
		"GRANT SELECT, INSERT, TRIGGER, DROP ON *.* TO `a`@`%`":               true,
		"GRANT SELECT, TRIGGER ON `shop`.* TO `a`@`%`":                        true,
		"GRANT ALL PRIVILEGES ON `sh\\_p`.* TO `a`@`%`":                       false,
		"GRANT ALL PRIVILEGES ON `sh_p`.* TO `a`@`%`":                         true,
		"GRANT ALL PRIVILEGES ON `s%`.* TO `a`@`%`":                           true,
		"GRANT TRIGGER ON `other`.* TO `a`@`%`":                               false,
		"GRANT SELECT, INSERT ON `shop`.* TO `a`@`%`":                         false,
		"GRANT TRIGGER ON `shop`.`t_idempotent_flow_202611` TO `a`@`%`":       false,
		"GRANT `role`@`%` TO `a`@`%`":                                         false,
		"GRANT USAGE ON *.* TO `a`@`%`":                                       false,
		"GRANT SYSTEM_USER,TRIGGER_LIKE ON *.* TO `root`@`localhost`":         false,
	} {
		g, _ := parseGrant(grant)
		if got := (Grants{g}).Has("TRIGGER", "shop", ""); got != want {
			t.Errorf("%s: %v, want %v", grant, got, want)
		}
	}
}

func TestGrantsHas(t *testing.T) {
	t.Parallel()
	const month = "t_idempotent_flow_202611"
	for _, c := range []struct {
		lines                    []string
		privilege, schema, table string
		want                     bool
	}{
		{[]string{"GRANT DELETE ON `shop`.`" + month + "` TO `a`@`%`"}, "DELETE", "shop", month, true},
		{[]string{"GRANT DELETE ON `shop`.`" + month + "` TO `a`@`%`"}, "DELETE", "shop", "other", false},
		{[]string{"GRANT DELETE ON `shop`.`" + month + "` TO `a`@`%`"}, "DELETE", "shop", "", false},
		{[]string{"GRANT DELETE ON `sh_p`.`" + month + "` TO `a`@`%`"}, "DELETE", "shop", month, false}, // no pattern there
		{[]string{"GRANT SELECT (`order_id`, `DELETE`), UPDATE ON `shop`.* TO `a`@`%`"}, "SELECT", "shop", month, false},
		{[]string{"GRANT SELECT (`order_id`, `biz_type`), UPDATE ON `shop`.* TO `a`@`%`"}, "UPDATE", "shop", month, true},
		{[]string{"GRANT DELETE ON *.* TO `a`@`%`", "REVOKE DELETE ON `shop`.* FROM `a`@`%`"}, "DELETE", "shop", "", false},
		{[]string{"GRANT DELETE ON *.* TO `a`@`%`", "REVOKE DELETE ON `mysql`.* FROM `a`@`%`"}, "DELETE", "shop", "", true},
		{[]string{"GRANT EXECUTE ON PROCEDURE `shop`.`p` TO `a`@`%`"}, "EXECUTE", "shop", "p", false},
		{[]string{"GRANT SELECT ON `a``b`.* TO `a`@`%`"}, "SELECT", "a`b", "", true},
		{[]string{"GRANT PROXY ON ''@'' TO 'root'@'localhost' WITH GRANT OPTION"}, "PROXY", "shop", "", false},
	} {
		var g Grants
		for _, line := range c.lines {
			if one, ok := parseGrant(line); ok {
				g = append(g, one)
			}
		}
		if got := g.Has(c.privilege, c.schema, c.table); got != c.want {
			t.Errorf("%q: %s on %s.%s: %v, want %v", c.lines, c.privilege, c.schema, c.table, got, c.want)
		}
	}
}
