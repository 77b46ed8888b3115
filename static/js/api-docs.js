// Starts Swagger UI, in the portal's theme. What it needs stands in the page's attributes, so that no script stands in the page itself.
const themed = () => document.documentElement.classList.toggle("dark-mode", document.documentElement.dataset.bsTheme === "dark");
document.addEventListener("berth:theme", themed);
themed();

const place = document.getElementById("swagger-ui");

SwaggerUIBundle({
  url: place.dataset.schema,
  domNode: place,
  presets: [SwaggerUIBundle.presets.apis],
  layout: "BaseLayout",
  deepLinking: false, // it would put a link into each operation's button
  persistAuthorization: true,
  displayOperationId: true,
  docExpansion: "none",
  filter: true,
  requestInterceptor: (request) => {
    if (request.method !== "GET" && request.credentials === "same-origin") {
      request.headers["X-CSRFToken"] = place.dataset.csrfToken;
    }
    return request;
  },
});
