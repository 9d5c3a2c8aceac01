"""Tables of people in and out, as a codebook describes them."""
