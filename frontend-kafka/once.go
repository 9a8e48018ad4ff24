package frontendkafka

// once keeps the first of the rows of a request that have the same key. A few bytes that name something may ask for
// megabytes of an answer: naming it again asks for nothing new.
func once[T any, K comparable](rows []T, key func(*T) K) []T {
	if len(rows) < 2 {
		return rows
	}
	seen := make(map[K]struct{}, len(rows))
	out := rows[:0]
	for i := range rows {
		k := key(&rows[i])
		if _, ok := seen[k]; !ok {
			seen[k] = struct{}{}
			out = append(out, rows[i])
		}
	}
	return out
}

// itself is the key of rows that are names or numbers.
func itself[K comparable](k *K) K { return *k }

// joined puts together the rows of a request that have the same key, and keeps each of their numbers once.
func joined[T any, K, N comparable](rows []T, of func(*T) (K, *[]N)) []T {
	first := make(map[K]*[]N, len(rows))
	out := rows[:0]
	for i := range rows {
		k, more := of(&rows[i])
		if all, ok := first[k]; ok {
			*all = append(*all, *more...)
			continue
		}
		out = append(out, rows[i])
		_, first[k] = of(&out[len(out)-1])
	}
	for i := range out {
		_, all := of(&out[i])
		*all = once(*all, itself)
	}
	return out
}
