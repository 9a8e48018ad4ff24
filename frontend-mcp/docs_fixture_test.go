package frontendmcp

// testPages stand in for the pages that the composition root hands over.
var testPages = []Page{{Name: "concepts", Title: "Concepts", Summary: "What there is",
	Text: "# Concepts\n\n## Consumer groups\n\nA consumer group reads each partition in order.\n\n## Leases\n\nA lease runs out.\n"}}
