package purge

import (
	"bytes"
	"database/sql"
	"encoding/json"
	"testing"

	"pgregory.net/rapid"
)

// Whatever bytes a row has, its line is one line of JSON, and reads back as the same row.
func TestLineRoundTrip(t *testing.T) {
	t.Parallel()
	types := []string{"varbinary(128)", "varchar(40)", "binary(16)", "bit(9)", "text", "blob"}
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 6).Draw(t, "columns")
		columns, row := make([]ArchiveColumn, n), make([]sql.RawBytes, n)
		for i := range columns {
			columns[i] = ArchiveColumn{Name: rapid.StringN(1, 8, -1).Draw(t, "name"), Type: rapid.SampledFrom(types).Draw(t, "type")}
			switch rapid.IntRange(0, 4).Draw(t, "form") {
			case 0:
			case 1:
				row[i] = rapid.SliceOf(rapid.Byte()).Draw(t, "bytes")
			case 2:
				row[i] = []byte(rapid.StringOf(rapid.RuneFrom([]rune("\x00\x01\x1f\"\\/\n\r\t\b\f\x7f\u2028é€😀 null{},:"))).Draw(t, "special"))
			case 3:
				row[i] = bytes.Repeat([]byte{0xff}, rapid.IntRange(0, 128).Draw(t, "length"))
			default:
				row[i] = []byte(rapid.String().Draw(t, "text"))
			}
		}
		line := newLineEncoder(columns).append(nil, row)
		if bytes.Count(line, []byte("\n")) != 1 || !json.Valid(line) {
			t.Fatalf("no line of JSON: %q", line)
		}
		got, err := newLineDecoder(columns).decode(line)
		if err != nil {
			t.Fatalf("%q: %v", line, err)
		}
		for i, v := range got {
			if v.null != (row[i] == nil) || !bytes.Equal(v.bytes, row[i]) {
				t.Errorf("%q: column %d reads %q, null %t; want %q", line, i, v.bytes, v.null, row[i])
			}
		}
	})
}

// A line that the encoder does not write is refused, also where a lenient reader would understand it.
func TestLineRefused(t *testing.T) {
	t.Parallel()
	columns := []ArchiveColumn{{Name: "a", Type: "varbinary(8)"}, {Name: "n", Type: "int"}, {Name: "c", Type: "binary(2)"}}
	good := `{"a":"x","n":1,"c":"0aff"}` + "\n"
	if _, err := newLineDecoder(columns).decode([]byte(good)); err != nil {
		t.Fatal(err)
	}
	for _, line := range []string{
		"", "\n", "{}\n", `{"a":"x","n":1,"c":"0aff"}`, `{"a":"x","n":1,"c":"0aff"} ` + "\n", `{"a":"x","n":1}` + "\n", `{"n":1,"a":"x","c":"0aff"}` + "\n",
		`{"a":"x,"n":1,"c":"0aff"}` + "\n", `{"a":"x","n":,"c":"0aff"}` + "\n", `{"a":"x","n":1,"c":"0af"}` + "\n", `{"a":"x","n":1,"c":"zz"}` + "\n",
		`{"a_b64":"%","n":1,"c":"0aff"}` + "\n", `{"a":"\u1234","n":1,"c":"0aff"}` + "\n", `{"a":"\u12`, `{"a":"\`, `{"a":"\x","n":1,"c":"0aff"}` + "\n",
		`{"a":1,"n":1,"c":"0aff"}` + "\n", good + good,
	} {
		if _, err := newLineDecoder(columns).decode([]byte(line)); err == nil {
			t.Errorf("%q is read", line)
		}
	}
}

// Every spelling of a type that the servers use leads to the right form.
func TestKindOf(t *testing.T) {
	t.Parallel()
	for typ, want := range map[string]valueKind{
		"varbinary(128)": kindBytes, "longblob": kindBytes, "varchar(10)": kindText, "enum('a','b')": kindText, "json": kindText, "uuid": kindText, "inet6": kindText,
		"int": kindNumber, "int(11)": kindNumber, "bigint(20) unsigned": kindNumber, "decimal(10,2)": kindNumber, "int(6) unsigned zerofill": kindDate,
		"double": kindFloat, "float unsigned": kindFloat, "datetime(3)": kindTime, "timestamp /* mariadb-5.3 */": kindTime, "datetime": kindTime,
		"date": kindDate, "time(2)": kindDate, "year(4)": kindDate, "binary(16)": kindHex, "bit(1)": kindHex, "point": kindHex, "vector(3)": kindHex,
	} {
		if got := kindOf(typ); got != want {
			t.Errorf("%s: kind %d, want %d", typ, got, want)
		}
	}
}
