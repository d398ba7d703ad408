"""Groups of people, policies that lead them to resources, and the answer to why somebody cannot reach one."""
