-- Which jobs run after which, besides the keys of before. An edge is a text: parent child on joins declared_by.
--
--   family                      the version of the edges, which grows with every change of them
--   edges                       set    all edges
--   children:<job>              set    the edges of a parent
--   declares:<job>              set    the edges that a job declares
--   arrived:<incarnation>:<root> set   for a child that waits for all of its parents: those that have ended as asked
--
-- Programs of older schemas would end a parent without its children, so they are shut out.
return true
