// Package docs will hold the pages of the product, embedded in the binary, for frontends and "queen docs" to serve as
// values. It is not built yet: the pages are README.md, ARCHITECTURE.md and engine/format/FORMAT.md in the repository.
package docs
