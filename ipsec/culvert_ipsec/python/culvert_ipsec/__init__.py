"""Culvert's IPsec datapath: one interface, userspace ESP over TUN and UDP."""
