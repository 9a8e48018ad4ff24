// Package mask hides parts of JSON payloads from who looks at messages, by rules of the operator. Frontends apply it to answers that
// show messages; what is handed to a consumer is whole. It knows payloads as bytes: neither files nor callers.
package mask
