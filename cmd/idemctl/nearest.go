package main

// nearest finds the candidate closest to what was typed, if it is close enough to be what was meant: at most a third of
// its letters differ.
func nearest(typed string, candidates []string) (string, bool) {
	best, bestDistance := "", -1
	for _, c := range candidates {
		d := distance(typed, c)
		if bestDistance < 0 || d < bestDistance {
			best, bestDistance = c, d
		}
	}
	const share = 3 // of the letters, rounded up
	limit := (max(len(typed), len(best)) + share - 1) / share
	return best, bestDistance >= 0 && bestDistance <= limit
}

// distance is how many letters must be put in, left out, changed or swapped with their neighbour to get from a to b
// (Levenshtein's, with swaps as one: the most common slip of all).
func distance(a, b string) int {
	x, y := []rune(a), []rune(b)
	var before, last []int // the rows of the table above the current one
	row := make([]int, len(y)+1)
	for j := range row {
		row[j] = j
	}
	for i := range x {
		before, last, row = last, row, make([]int, len(y)+1)
		row[0] = i + 1
		for j := range y {
			cost := 1
			if x[i] == y[j] {
				cost = 0
			}
			row[j+1] = min(last[j+1]+1, row[j]+1, last[j]+cost)
			if i > 0 && j > 0 && x[i] == y[j-1] && x[i-1] == y[j] {
				row[j+1] = min(row[j+1], before[j-1]+1)
			}
		}
	}
	return row[len(y)]
}
