/** What the console shows, in its order. */
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
  /** What else belongs to it. */
  also?: string;
  icon: Icon;
  about: string;
}

export const PLACES: readonly Place[] = [
  { label: "Overview", to: "/", icon: IconLayoutDashboard, about: "What is connected now" },
  { label: "Resources", to: "/resources", icon: IconWorld, about: "Names that can be opened" },
  {
    label: "Gateways",
    to: "/gateways",
    also: "/site-tunnels",
    icon: IconServer2,
    about: "Where tunnels end",
  },
  { label: "People", to: "/people", also: "/invitations", icon: IconUsers, about: "Who may open what" },
  { label: "Devices", to: "/devices", icon: IconDeviceLaptop, about: "Enrolled computers" },
  {
    label: "Policies",
    to: "/policies",
    also: "/groups",
    icon: IconKey,
    about: "Who may reach what, and when",
  },
  { label: "DNS", to: "/dns", icon: IconWorldWww, about: "What is published" },
  { label: "Why?", to: "/access", icon: IconHelpHexagon, about: "What somebody would be answered, and why" },
  { label: "Activity", to: "/activity", icon: IconHistory, about: "Who did what" },
  { label: "Settings", to: "/settings", icon: IconSettings, about: "Your account, administrators, tokens" },
];
