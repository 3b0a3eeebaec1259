"""One script a method; `prelude.lua`, and as far as needed `lines.lua`, `new_runs.lua`, `moves.lua` stand before it."""
