"""petti2020: TopDown on the 1940 census, its error, its empirical privacy loss, its bias, and simple random samples."""
