"""Linux: rtnetlink(7), XFRM, TUN, systemd-resolved and other DNS services, proc(5), sysfs."""
