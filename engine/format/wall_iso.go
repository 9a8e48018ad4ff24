package format

// AppendISO appends w as RFC 3339 in UTC with microseconds, "2026-11-30T10:00:00.000000Z": the form in which
// keyed rows hold times. It knows the years 0 to 9999 and stops at their ends.
func AppendISO(dst []byte, w Wall) []byte {
	const day, first, last = 86_400_000_000, -62_167_219_200_000_000, 253_402_300_799_999_999
	v := min(max(int64(w), first), last)
	days, rest := v/day, v%day
	if rest < 0 {
		days, rest = days-1, rest+day
	}
	year, month, date := civil(days)
	dst = append(appendDigits(dst, year, 4), '-')
	dst = append(appendDigits(dst, month, 2), '-')
	dst = append(appendDigits(dst, date, 2), 'T')
	dst = append(appendDigits(dst, rest/3_600_000_000, 2), ':')
	dst = append(appendDigits(dst, rest/60_000_000%60, 2), ':')
	dst = append(appendDigits(dst, rest/1_000_000%60, 2), '.')
	return append(appendDigits(dst, rest%1_000_000, 6), 'Z')
}

// civil turns days since 1970-01-01 into a date of the Gregorian calendar. Years are counted from March of
// year 0, so that the leap day is the last of a year; 146,097 days make 400 of them.
func civil(days int64) (year, month, date int64) {
	days += 719_468
	era := days / 146_097
	if days < 0 {
		era = (days - 146_096) / 146_097
	}
	inEra := days - era*146_097
	y := (inEra - inEra/1460 + inEra/36_524 - inEra/146_096) / 365
	inYear := inEra - (365*y + y/4 - y/100)
	m := (5*inYear + 2) / 153
	date = inYear - (153*m+2)/5 + 1
	year, month = y+era*400, m+3
	if month > 12 {
		year, month = year+1, month-12
	}
	return year, month, date
}

func appendDigits(dst []byte, v int64, digits int) []byte {
	at := len(dst)
	for range digits {
		dst = append(dst, '0')
	}
	for i := at + digits - 1; i >= at; i-- {
		dst[i], v = byte('0'+v%10), v/10
	}
	return dst
}
