/** The console's addresses. What a list is filtered by stands in them. */
import type { QueryClient } from "@tanstack/react-query";
import { createRootRouteWithContext, createRoute, createRouter, Outlet } from "@tanstack/react-router";

import { ORDERS } from "./devices/queries";
import { Faulty, Missing } from "./frame/Faulty";
import { Frame } from "./frame/Frame";
import { Overview } from "./overview/Overview";
import { ORDERS as RESOURCE_ORDERS } from "./resources/queries";
import { oneOf, text } from "./shared/search";
import { view } from "./shared/view";

const rootRoute = createRootRouteWithContext<{ queries: QueryClient }>()({
  component: Outlet,
  notFoundComponent: Missing,
});

const setUpRoute = createRoute({
  getParentRoute: () => rootRoute,
  path: "/setup",
  component: view(() => import("./session/SetUp"), "SetUp"),
});

const frameRoute = createRoute({ getParentRoute: () => rootRoute, id: "frame", component: Frame });

const overviewRoute = createRoute({
  getParentRoute: () => frameRoute,
  path: "/",
  component: Overview,
});

const resourcesRoute = createRoute({
  getParentRoute: () => frameRoute,
  path: "/resources",
  validateSearch: (search) => ({
    ...text(search, "q"),
    ...text(search, "gateway"),
    ...oneOf(search, "sort", RESOURCE_ORDERS),
  }),
  component: view(() => import("./resources/Resources"), "Resources"),
});

const newResourceRoute = createRoute({
  getParentRoute: () => frameRoute,
  path: "/resources/new",
  component: view(() => import("./resources/NewResource"), "NewResource"),
});

const resourceRoute = createRoute({
  getParentRoute: () => frameRoute,
  path: "/resources/of/$name",
  component: view(() => import("./resources/OneResource"), "OneResource"),
});

const gatewaysRoute = createRoute({
  getParentRoute: () => frameRoute,
  path: "/gateways",
  component: view(() => import("./gateways/Gateways"), "Gateways"),
});

const newGatewayRoute = createRoute({
  getParentRoute: () => frameRoute,
  path: "/gateways/new",
  component: view(() => import("./gateways/NewGateway"), "NewGateway"),
});

const gatewayRoute = createRoute({
  getParentRoute: () => frameRoute,
  path: "/gateways/of/$name",
  validateSearch: (search) => oneOf(search, "hours", [6, 24]),
  component: view(() => import("./gateways/OneGateway"), "OneGateway"),
});

const siteTunnelsRoute = createRoute({
  getParentRoute: () => frameRoute,
  path: "/site-tunnels",
  component: view(() => import("./sites/SiteTunnels"), "SiteTunnels"),
});

const newSiteTunnelRoute = createRoute({
  getParentRoute: () => frameRoute,
  path: "/site-tunnels/new",
  component: view(() => import("./sites/NewSiteTunnel"), "NewSiteTunnel"),
});

const siteTunnelRoute = createRoute({
  getParentRoute: () => frameRoute,
  path: "/site-tunnels/of/$name",
  component: view(() => import("./sites/OneSiteTunnel"), "OneSiteTunnel"),
});

const peopleRoute = createRoute({
  getParentRoute: () => frameRoute,
  path: "/people",
  validateSearch: (search) => ({
    ...text(search, "q"),
    ...oneOf(search, "sort", ["name", "-name"] as const),
  }),
  component: view(() => import("./people/People"), "People"),
});

const invitationsRoute = createRoute({
  getParentRoute: () => frameRoute,
  path: "/invitations",
  validateSearch: (search) => text(search, "q"),
  component: view(() => import("./people/Invitations"), "Invitations"),
});

const groupsRoute = createRoute({
  getParentRoute: () => frameRoute,
  path: "/groups",
  validateSearch: (search) => text(search, "q"),
  component: view(() => import("./groups/Groups"), "Groups"),
});

const newGroupRoute = createRoute({
  getParentRoute: () => frameRoute,
  path: "/groups/new",
  component: view(() => import("./groups/NewGroup"), "NewGroup"),
});

const groupRoute = createRoute({
  getParentRoute: () => frameRoute,
  path: "/groups/of/$name",
  component: view(() => import("./groups/OneGroup"), "OneGroup"),
});

const policiesRoute = createRoute({
  getParentRoute: () => frameRoute,
  path: "/policies",
  validateSearch: (search) => text(search, "q"),
  component: view(() => import("./policies/Policies"), "Policies"),
});

const newPolicyRoute = createRoute({
  getParentRoute: () => frameRoute,
  path: "/policies/new",
  component: view(() => import("./policies/NewPolicy"), "NewPolicy"),
});

const policyRoute = createRoute({
  getParentRoute: () => frameRoute,
  path: "/policies/of/$name",
  component: view(() => import("./policies/OnePolicy"), "OnePolicy"),
});

const devicesRoute = createRoute({
  getParentRoute: () => frameRoute,
  path: "/devices",
  validateSearch: (search) => ({ ...text(search, "q"), ...oneOf(search, "sort", ORDERS) }),
  component: view(() => import("./devices/Devices"), "Devices"),
});

const dnsRoute = createRoute({
  getParentRoute: () => frameRoute,
  path: "/dns",
  validateSearch: (search) => ({ ...text(search, "q"), ...text(search, "state") }),
  component: view(() => import("./dns/Dns"), "Dns"),
});

const accessRoute = createRoute({
  getParentRoute: () => frameRoute,
  path: "/access",
  validateSearch: (search) => ({ ...text(search, "user"), ...text(search, "name") }),
  component: view(() => import("./access/Access"), "Access"),
});

const activityRoute = createRoute({
  getParentRoute: () => frameRoute,
  path: "/activity",
  validateSearch: (search) => ({
    ...text(search, "actor"),
    ...text(search, "action"),
    ...text(search, "object"),
    ...text(search, "outcome"),
    ...text(search, "reason"),
  }),
  component: view(() => import("./activity/Activity"), "Activity"),
});

const settingsRoute = createRoute({
  getParentRoute: () => frameRoute,
  path: "/settings",
  validateSearch: (search) => text(search, "part"),
  component: view(() => import("./settings/Settings"), "Settings"),
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
    gatewayRoute,
    siteTunnelsRoute,
    newSiteTunnelRoute,
    siteTunnelRoute,
    peopleRoute,
    invitationsRoute,
    devicesRoute,
    policiesRoute,
    newPolicyRoute,
    policyRoute,
    groupsRoute,
    newGroupRoute,
    groupRoute,
    dnsRoute,
    accessRoute,
    activityRoute,
    settingsRoute,
  ]),
]);

const BASE = "/console";

export function createConsole(queries: QueryClient) {
  return createRouter({
    routeTree: routes,
    basepath: BASE,
    context: { queries },
    defaultErrorComponent: Faulty,
    defaultPreload: "intent",
    scrollRestoration: true,
  });
}

declare module "@tanstack/react-router" {
  interface Register {
    router: ReturnType<typeof createConsole>;
  }
}
