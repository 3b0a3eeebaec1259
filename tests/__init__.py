"""Everything that shows that Tokimori keeps its promises."""
