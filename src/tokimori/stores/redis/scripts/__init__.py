"""One script a method; `prelude.lua`, and as far as needed `lines.lua`, `births.lua`, `moves.lua` stand before it."""
