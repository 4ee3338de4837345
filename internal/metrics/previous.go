package metrics

import (
	"errors"
	"io/fs"
	"os"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
)

// previous reads a gauge from the file that is about to be replaced. No file, or one that is no metrics file any more, has
// no value: 0, which raises the alarm that a made-up time would silence.
func previous(path, name string, labels []Label) (float64, error) {
	f, err := os.Open(path) //nolint:gosec // the operator names the file
	if errors.Is(err, fs.ErrNotExist) {
		return 0, nil
	}
	if err != nil {
		return 0, err //nolint:wrapcheck // names the file
	}
	defer f.Close() //nolint:errcheck // only read
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(f)
	if err != nil {
		return 0, nil
	}
	for _, m := range families[name].GetMetric() {
		if sameLabels(m.GetLabel(), labels) {
			return m.GetGauge().GetValue(), nil
		}
	}
	return 0, nil
}

func sameLabels(have []*dto.LabelPair, want []Label) bool {
	if len(have) != len(want) {
		return false
	}
	values := map[string]string{}
	for _, l := range have {
		values[l.GetName()] = l.GetValue()
	}
	for _, l := range want {
		if v, ok := values[l.Name]; !ok || v != l.Value {
			return false
		}
	}
	return true
}
