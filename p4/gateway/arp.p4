// Answers ARP requests for the gateway's own addresses (RFC 826).

control ArpResponder(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) {
    action not_ours() { meta.drop_cause = Drop.ARP_NOT_OURS; }

    action reply(mac_t mac) {
        hdr.ethernet.dst = hdr.arp.sender_mac;
        hdr.ethernet.src = mac;
        ipv4_addr_t asked = hdr.arp.target_ip;
        hdr.arp.operation = 2;
        hdr.arp.target_mac = hdr.arp.sender_mac;
        hdr.arp.target_ip = hdr.arp.sender_ip;
        hdr.arp.sender_mac = mac;
        hdr.arp.sender_ip = asked;
        std.egress_spec = std.ingress_port;
    }

    @name("arp_responder")
    table arp_responder {
        key = {
            std.ingress_port  : exact @name("port");
            hdr.arp.operation : exact @name("operation");
            hdr.arp.target_ip : exact @name("target");
        }
        actions = { reply; @defaultonly not_ours; }
        const default_action = not_ours();
        size = 512;
    }

    apply { arp_responder.apply(); }
}
