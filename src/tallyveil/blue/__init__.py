"""Best linear unbiased estimates over the whole tree, with exact variances, from measurements alone."""
