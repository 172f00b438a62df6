import java.net.InetSocketAddress;
import java.util.Map;
import org.apache.iceberg.CatalogUtil;
import org.apache.iceberg.catalog.Catalog;
import org.apache.iceberg.rest.RESTCatalogAdapter;
import org.apache.iceberg.rest.RESTCatalogServlet;
import org.eclipse.jetty.ee10.servlet.ServletContextHandler;
import org.eclipse.jetty.ee10.servlet.ServletHolder;
import org.eclipse.jetty.server.Server;
import org.eclipse.jetty.server.ServerConnector;

/**
 * Iceberg's own REST catalog over its JDBC catalog, on a free port of this machine alone; its own main takes port 8181 of all
 * addresses. Arguments: the catalog's database and warehouse. Prints the port, and ends with its input.
 */
class IcebergRestCatalog {
    public static void main(String[] arguments) throws Exception {
        Catalog catalog = CatalogUtil.buildIcebergCatalog(
                "rest",
                Map.of(
                        "catalog-impl", "org.apache.iceberg.jdbc.JdbcCatalog",
                        "uri", "jdbc:sqlite:" + arguments[0],
                        "warehouse", arguments[1],
                        "jdbc.schema-version", "V1"),
                new org.apache.hadoop.conf.Configuration());
        Server server = new Server(new InetSocketAddress("127.0.0.1", 0));
        ServletContextHandler handler = new ServletContextHandler(ServletContextHandler.NO_SESSIONS);
        handler.addServlet(new ServletHolder(new RESTCatalogServlet(new RESTCatalogAdapter(catalog))), "/*");
        server.setHandler(handler);
        server.start();
        System.out.println(((ServerConnector) server.getConnectors()[0]).getLocalPort());
        System.out.flush();
        while (System.in.read() >= 0) {}
        System.exit(0);
    }
}
