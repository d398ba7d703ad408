/** The console's main pages, in their order. */
import {
  IconDeviceLaptop,
  IconHelpHexagon,
  IconHistory,
  IconKey,
  IconLayoutDashboard,
  IconServer2,
  IconSettings,
  IconUsers,
  IconWorld,
  IconWorldWww,
  type Icon,
} from "@tabler/icons-react";
import type { LinkProps } from "@tanstack/react-router";

export interface Place {
  label: string;
  to: NonNullable<LinkProps["to"]>;
  /** The address of another page of the same place. */
  also?: string;
  icon: Icon;
  about: string;
}

export const PLACES: readonly Place[] = [
  { label: "Overview", to: "/", icon: IconLayoutDashboard, about: "Live map of tunnels" },
  { label: "Resources", to: "/resources", icon: IconWorld, about: "Names that can be opened" },
  {
    label: "Gateways",
    to: "/gateways",
    also: "/site-tunnels",
    icon: IconServer2,
    about: "Ends of tunnels",
  },
  {
    label: "People",
    to: "/people",
    also: "/invitations",
    icon: IconUsers,
    about: "People and their invitations",
  },
  { label: "Devices", to: "/devices", icon: IconDeviceLaptop, about: "Enrolled computers" },
  {
    label: "Policies",
    to: "/policies",
    also: "/groups",
    icon: IconKey,
    about: "Access rules",
  },
  { label: "DNS", to: "/dns", icon: IconWorldWww, about: "Published records" },
  {
    label: "Access check",
    to: "/access",
    icon: IconHelpHexagon,
    about: "Why a person may or may not open a name",
  },
  { label: "Activity", to: "/activity", icon: IconHistory, about: "Log of all actions" },
  { label: "Settings", to: "/settings", icon: IconSettings, about: "Your account, administrators, tokens" },
];
