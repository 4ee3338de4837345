package mysqlx

// AppendText writes a value of a VARBINARY column into a statement: as it stands where no byte of it could mean anything to
// a server's parser, whatever its mode, else as a bound argument. Most order ids are plain, and a literal costs least.
func AppendText(text []byte, args []any, value string) ([]byte, []any) {
	for i := range len(value) {
		switch c := value[i]; {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9', c == '-', c == '_', c == '.', c == ':':
		default:
			return append(text, '?'), append(args, []byte(value))
		}
	}
	text = append(text, '\'')
	text = append(text, value...)
	return append(text, '\''), args
}
