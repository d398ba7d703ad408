"""Linux: rtnetlink(7), XFRM, TUN, resolved and its like, proc(5), sysfs."""
