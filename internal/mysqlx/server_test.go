package mysqlx

import "testing"

func TestGrantsTrigger(t *testing.T) {
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
		if got := grantsTrigger(grant, "shop"); got != want {
			t.Errorf("%s: %v, want %v", grant, got, want)
		}
	}
}
