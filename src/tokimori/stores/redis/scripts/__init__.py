"""One script for each method of the store; `prelude.lua`, `lines.lua` and `moves.lua` stand before each of them."""
