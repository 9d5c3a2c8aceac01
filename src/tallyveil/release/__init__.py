"""From counts to a release: measure, estimate, certify, check."""
