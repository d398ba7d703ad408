/** The console's main pages, in their order. */
import type { MessageDescriptor } from "@lingui/core";
import { msg } from "@lingui/core/macro";
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
  IconSitemap,
  type Icon,
} from "@tabler/icons-react";
import type { LinkProps } from "@tanstack/react-router";

export interface Place {
  label: MessageDescriptor;
  to: NonNullable<LinkProps["to"]>;
  /** The addresses of other pages of the same place. */
  also?: readonly string[];
  icon: Icon;
  about: MessageDescriptor;
}

export const PLACES: readonly Place[] = [
  { label: msg`Overview`, to: "/", icon: IconLayoutDashboard, about: msg`Live map of tunnels` },
  { label: msg`Resources`, to: "/resources", icon: IconWorld, about: msg`Names that can be opened` },
  {
    label: msg`Gateways`,
    to: "/gateways",
    also: ["/site-tunnels"],
    icon: IconServer2,
    about: msg`Ends of tunnels`,
  },
  {
    label: msg`People`,
    to: "/people",
    also: ["/groups", "/invitations"],
    icon: IconUsers,
    about: msg`People, their groups and invitations`,
  },
  { label: msg`Devices`, to: "/devices", icon: IconDeviceLaptop, about: msg`Enrolled computers` },
  {
    label: msg`Policies`,
    to: "/policies",
    also: ["/assertions"],
    icon: IconKey,
    about: msg`Access rules`,
  },
  { label: msg`DNS`, to: "/dns", icon: IconSitemap, about: msg`Published records` },
  {
    label: msg`Access check`,
    to: "/access",
    icon: IconHelpHexagon,
    about: msg`Why a person may or may not open a name`,
  },
  { label: msg`Activity`, to: "/activity", icon: IconHistory, about: msg`Log of all actions` },
  {
    label: msg`Settings`,
    to: "/settings",
    icon: IconSettings,
    about: msg`Your account, administrators, tokens`,
  },
];
