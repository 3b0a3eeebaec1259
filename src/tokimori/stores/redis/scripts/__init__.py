"""One script for each method of the store; `prelude.lua` stands before each of them."""
