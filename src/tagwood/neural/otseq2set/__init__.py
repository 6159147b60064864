"""OTSeq2Set: generate label sets of variable size."""
