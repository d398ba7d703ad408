/** The console's addresses, with the filters of its lists; `dialog`: the one that is open. */
import type { QueryClient } from "@tanstack/react-query";
import { createRootRouteWithContext, createRoute, createRouter, Outlet } from "@tanstack/react-router";

import { ORDERS as ASSERTION_ORDERS } from "./assertions/queries";
import { ORDERS, STATES } from "./devices/queries";
import { ORDERS as RECORD_ORDERS } from "./dns/records";
import { ErrorPage, NotFoundPage } from "./frame/ErrorPage";
import { Frame } from "./frame/Frame";
import { ORDERS as GATEWAY_ORDERS } from "./gateways/state";
import { ORDERS as GROUP_ORDERS } from "./groups/queries";
import { OverviewPage } from "./overview/OverviewPage";
import { INVITATION_ORDERS, PERSON_ORDERS } from "./people/queries";
import { ORDERS as POLICY_ORDERS } from "./policies/queries";
import { ORDERS as RESOURCE_ORDERS } from "./resources/queries";
import { ORDERS as SETTINGS_ORDERS } from "./settings/queries";
import { ORDERS as SITE_TUNNEL_ORDERS } from "./sites/queries";
import { rememberLists } from "./shared/lists";
import { oneOf, text } from "./shared/search";
import { spoken, view } from "./shared/view";

const rootRoute = createRootRouteWithContext<{ queries: QueryClient }>()({
  component: Outlet,
  notFoundComponent: spoken(() => (
    <Frame>
      <NotFoundPage />
    </Frame>
  )),
});

const setUpRoute = createRoute({
  getParentRoute: () => rootRoute,
  path: "/setup",
  component: view(() => import("./session/SetUpPage"), "SetUpPage"),
});

const frameRoute = createRoute({ getParentRoute: () => rootRoute, id: "frame", component: spoken(Frame) });

const overviewRoute = createRoute({
  getParentRoute: () => frameRoute,
  path: "/",
  component: spoken(OverviewPage),
});

const resourcesRoute = createRoute({
  getParentRoute: () => frameRoute,
  path: "/resources",
  validateSearch: (search) => ({
    ...text(search, "q"),
    ...text(search, "gateway"),
    ...oneOf(search, "sort", RESOURCE_ORDERS),
  }),
  component: view(() => import("./resources/ResourceListPage"), "ResourceListPage"),
});

const newResourceRoute = createRoute({
  getParentRoute: () => frameRoute,
  path: "/resources/new",
  validateSearch: (search) => text(search, "fqdn"),
  component: view(() => import("./resources/ResourceCreatePage"), "ResourceCreatePage"),
});

const resourceRoute = createRoute({
  getParentRoute: () => frameRoute,
  path: "/resources/of/$name",
  component: view(() => import("./resources/ResourcePage"), "ResourcePage"),
});

const gatewaysRoute = createRoute({
  getParentRoute: () => frameRoute,
  path: "/gateways",
  validateSearch: (search) => ({ ...text(search, "q"), ...oneOf(search, "sort", GATEWAY_ORDERS) }),
  component: view(() => import("./gateways/GatewayListPage"), "GatewayListPage"),
});

const newGatewayRoute = createRoute({
  getParentRoute: () => frameRoute,
  path: "/gateways/new",
  component: view(() => import("./gateways/GatewayCreatePage"), "GatewayCreatePage"),
});

const joinGatewayRoute = createRoute({
  getParentRoute: () => frameRoute,
  path: "/gateways/join",
  component: view(() => import("./gateways/GatewayJoinPage"), "GatewayJoinPage"),
});

const gatewayRoute = createRoute({
  getParentRoute: () => frameRoute,
  path: "/gateways/of/$name",
  validateSearch: (search) => oneOf(search, "hours", [1, 6]),
  component: view(() => import("./gateways/GatewayPage"), "GatewayPage"),
});

const editGatewayRoute = createRoute({
  getParentRoute: () => frameRoute,
  path: "/gateways/edit/$name",
  component: view(() => import("./gateways/GatewayEditPage"), "GatewayEditPage"),
});

const siteTunnelsRoute = createRoute({
  getParentRoute: () => frameRoute,
  path: "/site-tunnels",
  validateSearch: (search) => ({ ...text(search, "q"), ...oneOf(search, "sort", SITE_TUNNEL_ORDERS) }),
  component: view(() => import("./sites/SiteTunnelListPage"), "SiteTunnelListPage"),
});

const newSiteTunnelRoute = createRoute({
  getParentRoute: () => frameRoute,
  path: "/site-tunnels/new",
  component: view(() => import("./sites/SiteTunnelCreatePage"), "SiteTunnelCreatePage"),
});

const siteTunnelRoute = createRoute({
  getParentRoute: () => frameRoute,
  path: "/site-tunnels/of/$name",
  component: view(() => import("./sites/SiteTunnelPage"), "SiteTunnelPage"),
});

const peopleRoute = createRoute({
  getParentRoute: () => frameRoute,
  path: "/people",
  validateSearch: (search) => ({
    ...text(search, "q"),
    ...oneOf(search, "sort", PERSON_ORDERS),
    ...oneOf(search, "dialog", ["add"] as const),
  }),
  component: view(() => import("./people/PersonListPage"), "PersonListPage"),
});

const personRoute = createRoute({
  getParentRoute: () => frameRoute,
  path: "/people/of/$name",
  component: view(() => import("./people/PersonPage"), "PersonPage"),
});

const invitationsRoute = createRoute({
  getParentRoute: () => frameRoute,
  path: "/invitations",
  validateSearch: (search) => ({
    ...text(search, "q"),
    ...oneOf(search, "sort", INVITATION_ORDERS),
    ...oneOf(search, "dialog", ["invite"] as const),
  }),
  component: view(() => import("./people/InvitationListPage"), "InvitationListPage"),
});

const groupsRoute = createRoute({
  getParentRoute: () => frameRoute,
  path: "/groups",
  validateSearch: (search) => ({ ...text(search, "q"), ...oneOf(search, "sort", GROUP_ORDERS) }),
  component: view(() => import("./groups/GroupListPage"), "GroupListPage"),
});

const newGroupRoute = createRoute({
  getParentRoute: () => frameRoute,
  path: "/groups/new",
  component: view(() => import("./groups/GroupCreatePage"), "GroupCreatePage"),
});

const groupRoute = createRoute({
  getParentRoute: () => frameRoute,
  path: "/groups/of/$name",
  component: view(() => import("./groups/GroupPage"), "GroupPage"),
});

const policiesRoute = createRoute({
  getParentRoute: () => frameRoute,
  path: "/policies",
  validateSearch: (search) => ({
    ...text(search, "q"),
    ...oneOf(search, "use", ["unused"] as const),
    ...oneOf(search, "sort", POLICY_ORDERS),
  }),
  component: view(() => import("./policies/PolicyListPage"), "PolicyListPage"),
});

const newPolicyRoute = createRoute({
  getParentRoute: () => frameRoute,
  path: "/policies/new",
  validateSearch: (search) => ({
    ...text(search, "user"),
    ...text(search, "resource"),
    ...text(search, "check"),
  }),
  component: view(() => import("./policies/PolicyCreatePage"), "PolicyCreatePage"),
});

const policyRoute = createRoute({
  getParentRoute: () => frameRoute,
  path: "/policies/of/$name",
  component: view(() => import("./policies/PolicyPage"), "PolicyPage"),
});

const devicesRoute = createRoute({
  getParentRoute: () => frameRoute,
  path: "/devices",
  validateSearch: (search) => ({
    ...text(search, "q"),
    ...text(search, "user"),
    ...oneOf(search, "state", STATES),
    ...oneOf(search, "sort", ORDERS),
  }),
  component: view(() => import("./devices/DeviceListPage"), "DeviceListPage"),
});

const dnsRoute = createRoute({
  getParentRoute: () => frameRoute,
  path: "/dns",
  validateSearch: (search) => ({
    ...text(search, "q"),
    ...text(search, "state"),
    ...oneOf(search, "sort", RECORD_ORDERS),
    ...oneOf(search, "dialog", ["add"] as const),
  }),
  component: view(() => import("./dns/DnsPage"), "DnsPage"),
});

const assertionsRoute = createRoute({
  getParentRoute: () => frameRoute,
  path: "/assertions",
  validateSearch: (search) => ({
    ...text(search, "q"),
    ...oneOf(search, "sort", ASSERTION_ORDERS),
    ...oneOf(search, "dialog", ["add"] as const),
  }),
  component: view(() => import("./assertions/AssertionListPage"), "AssertionListPage"),
});

const accessRoute = createRoute({
  getParentRoute: () => frameRoute,
  path: "/access",
  validateSearch: (search) => ({
    ...text(search, "user"),
    ...text(search, "name"),
    ...(Number.isNaN(Date.parse(String(search.at))) ? {} : text(search, "at")),
  }),
  component: view(() => import("./access/AccessCheckPage"), "AccessCheckPage"),
});

const activityRoute = createRoute({
  getParentRoute: () => frameRoute,
  path: "/activity",
  validateSearch: (search) => ({
    ...text(search, "q"),
    ...text(search, "actor"),
    ...text(search, "person"),
    ...text(search, "action"),
    ...text(search, "object"),
    ...text(search, "outcome"),
    ...text(search, "reason"),
    ...text(search, "from"),
    ...text(search, "to"),
    ...oneOf(search, "sort", ["at", "-at"] as const),
  }),
  component: view(() => import("./activity/ActivityPage"), "ActivityPage"),
});

const settingsRoute = createRoute({
  getParentRoute: () => frameRoute,
  path: "/settings",
  validateSearch: (search) => ({
    ...text(search, "part"),
    ...text(search, "q"),
    ...oneOf(search, "sort", SETTINGS_ORDERS),
    ...oneOf(search, "dialog", ["add", "invite"] as const),
  }),
  component: view(() => import("./settings/SettingsPage"), "SettingsPage"),
});

const routes = rootRoute.addChildren([
  setUpRoute,
  frameRoute.addChildren([
    overviewRoute,
    resourcesRoute,
    newResourceRoute,
    resourceRoute,
    gatewaysRoute,
    newGatewayRoute,
    joinGatewayRoute,
    gatewayRoute,
    editGatewayRoute,
    siteTunnelsRoute,
    newSiteTunnelRoute,
    siteTunnelRoute,
    peopleRoute,
    personRoute,
    invitationsRoute,
    devicesRoute,
    policiesRoute,
    newPolicyRoute,
    policyRoute,
    groupsRoute,
    newGroupRoute,
    groupRoute,
    dnsRoute,
    assertionsRoute,
    accessRoute,
    activityRoute,
    settingsRoute,
  ]),
]);

const BASE = "/console";

export function createConsole(queries: QueryClient) {
  const router = createRouter({
    routeTree: routes,
    basepath: BASE,
    context: { queries },
    defaultErrorComponent: spoken(ErrorPage),
    defaultPreload: "intent",
    scrollRestoration: true,
  });
  rememberLists(router);
  return router;
}

declare module "@tanstack/react-router" {
  interface Register {
    router: ReturnType<typeof createConsole>;
  }
}
