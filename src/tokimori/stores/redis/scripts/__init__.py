"""One script for each method of the store; `prelude.lua` and `lines.lua` stand before each of them."""
