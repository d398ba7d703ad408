/** Mantine's components as links to the console's own addresses; `to`, `params` and `search` are checked. */
import {
  Anchor,
  Button,
  NavLink,
  type AnchorProps,
  type ButtonProps,
  type NavLinkProps,
} from "@mantine/core";
import { createLink } from "@tanstack/react-router";
import type { ComponentProps } from "react";

type Linked<Props> = Props & Omit<ComponentProps<"a">, keyof Props>;

export const AnchorLink = createLink((props: Linked<AnchorProps>) => <Anchor {...props} />);
export const ButtonLink = createLink((props: Linked<ButtonProps>) => <Button component="a" {...props} />);
export const NavLinkTo = createLink((props: Linked<NavLinkProps>) => <NavLink {...props} />);
