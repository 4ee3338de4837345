package purge

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"time"
	"unicode/utf8"

	"github.com/idemctl/idemctl/pkg/partition"
)

// manifestVersion is the version of the manifest and of the lines that it describes.
const manifestVersion = 1

// Manifest describes an archive. It is written last: an archive without one was not finished.
type Manifest struct {
	Version int    `json:"version"`
	File    string `json:"file"` // the name of the compressed file beside it
	// Table is the month's own name, also where the rows were read from it under a held one.
	Table  string          `json:"table"`
	Prefix string          `json:"prefix"`
	Month  partition.Month `json:"month,omitzero"` // zero: a ledger without months
	// Columns are those of the lines, in order; ColumnMap says which of them are the key and the times.
	Columns   []ArchiveColumn `json:"columns"`
	ColumnMap ColumnMap       `json:"column_map"`
	// Retention is added to create_time where there is no expiry column, in nanoseconds.
	Retention time.Duration    `json:"retention_ns,omitzero"`
	Condition ArchiveCondition `json:"condition"`

	Rows          int64  `json:"rows"`
	Bytes         int64  `json:"bytes"`          // of the file
	SHA256        string `json:"sha256"`         // of the file
	ContentBytes  int64  `json:"content_bytes"`  // of the lines
	ContentSHA256 string `json:"content_sha256"` // of the lines

	MinCreate time.Time    `json:"min_create_time,omitzero"`
	MaxCreate time.Time    `json:"max_create_time,omitzero"`
	MinExpiry time.Time    `json:"min_expiry,omitzero"`
	MaxExpiry time.Time    `json:"max_expiry,omitzero"`
	BizTypes  []ArchiveBiz `json:"biz_types"` // in order of name

	LedgerID  string    `json:"ledger_id"`
	Server    string    `json:"server"`
	Tool      string    `json:"tool_version"`
	Run       string    `json:"run"`
	CreatedAt time.Time `json:"created_at"`

	// Checksum is the SHA-256 of this manifest with an empty Checksum.
	Checksum string `json:"checksum"`
}

// ArchiveColumn is a column as information_schema describes it.
type ArchiveColumn struct {
	Name string `json:"name"`
	Type string `json:"type"`
	// Computed marks a generated column: it is archived, and not restored.
	Computed bool `json:"generated,omitempty"`
}

// ColumnMap is partition.Columns in JSON.
type ColumnMap struct {
	OrderID    string `json:"order_id"`
	BizType    string `json:"biz_type,omitempty"`
	CreateTime string `json:"create_time"`
	ExpireAt   string `json:"expire_at,omitempty"`
}

// ArchiveCondition is what was selected: expiry in [From, To), created at or before Cutoff.
type ArchiveCondition struct {
	Cutoff time.Time `json:"cutoff"`
	From   time.Time `json:"from,omitzero"`
	To     time.Time `json:"to"`
	Limit  int64     `json:"limit,omitzero"` // rows at most; the oldest expiries; 0: all
}

// ArchiveBiz is one biz_type's part of an archive.
type ArchiveBiz struct {
	BizType   string
	Rows      int64
	MaxCreate time.Time
}

// archiveBizJSON is ArchiveBiz for any bytes of a biz_type.
type archiveBizJSON struct {
	BizType   string    `json:"biz_type"`
	Base64    string    `json:"biz_type_b64,omitempty"`
	Rows      int64     `json:"rows"`
	MaxCreate time.Time `json:"max_create_time"`
}

// MarshalJSON implements json.Marshaler.
func (b ArchiveBiz) MarshalJSON() ([]byte, error) {
	j := archiveBizJSON{BizType: b.BizType, Rows: b.Rows, MaxCreate: b.MaxCreate}
	if !utf8.ValidString(b.BizType) {
		j.BizType, j.Base64 = "", base64.StdEncoding.EncodeToString([]byte(b.BizType))
	}
	return json.Marshal(j)
}

// UnmarshalJSON implements json.Unmarshaler.
func (b *ArchiveBiz) UnmarshalJSON(data []byte) error {
	var j archiveBizJSON
	if err := json.Unmarshal(data, &j); err != nil {
		return err
	}
	*b = ArchiveBiz{BizType: j.BizType, Rows: j.Rows, MaxCreate: j.MaxCreate}
	if j.Base64 != "" {
		raw, err := base64.StdEncoding.DecodeString(j.Base64)
		if err != nil {
			return fmt.Errorf("biz_type_b64: %w", err)
		}
		b.BizType = string(raw)
	}
	return nil
}

func newColumnMap(c partition.Columns) ColumnMap {
	return ColumnMap{OrderID: c.OrderID, BizType: c.BizType, CreateTime: c.CreateTime, ExpireAt: c.ExpireAt}
}

// own reports the columns of the tables that this project makes.
func (c ColumnMap) own() bool { return c == newColumnMap(partition.OwnColumns()) }

// encode writes the manifest with its checksum: indented JSON, the one form in which it is accepted again.
func (m *Manifest) encode() ([]byte, error) {
	plain := *m
	plain.Checksum = ""
	b, err := indented(&plain)
	if err != nil {
		return nil, err
	}
	sum := sha256.Sum256(b)
	m.Checksum = hex.EncodeToString(sum[:])
	return indented(m)
}

func indented(m *Manifest) ([]byte, error) {
	b, err := json.MarshalIndent(m, "", "  ")
	if err != nil {
		return nil, fmt.Errorf("manifest: %w", err)
	}
	return append(b, '\n'), nil
}

// errManifestForm says that the bytes are not those of any manifest that encode writes.
var errManifestForm = errors.New("it was changed after it was written")

// decodeManifest reads what encode writes, and nothing else: every byte counts.
func decodeManifest(b []byte) (Manifest, error) {
	var head struct {
		Version int `json:"version"`
	}
	if err := json.Unmarshal(b, &head); err != nil {
		return Manifest{}, fmt.Errorf("it is no JSON: %w", err)
	}
	if head.Version > manifestVersion {
		return Manifest{}, fmt.Errorf("it has version %d, this program reads %d", head.Version, manifestVersion)
	}
	var m Manifest
	if err := json.Unmarshal(b, &m); err != nil {
		return Manifest{}, fmt.Errorf("%w: %w", errManifestForm, err)
	}
	again := m
	want, err := again.encode()
	if err != nil || again.Checksum != m.Checksum || !bytes.Equal(want, b) {
		return Manifest{}, errManifestForm
	}
	return m, nil
}
