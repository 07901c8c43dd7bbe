// The key stays in this page's memory: nothing is written to the browser's storage.
SwaggerUIBundle({
  url: "/openapi.json",
  dom_id: "#swagger-ui",
  tryItOutEnabled: true,
  defaultModelsExpandDepth: 0,
  displayRequestDuration: false,
  persistAuthorization: false,
  validatorUrl: null,
});
