import org.codelibs.opensearch.runner.OpenSearchRunner;

/** A node of OpenSearch in this process: base directory and port are its arguments. */
public class Node {
    public static void main(String[] args) throws Exception {
        OpenSearchRunner runner = new OpenSearchRunner();
        runner.onBuild((number, settings) -> {
            settings.put("http.port", args[1]);
            settings.put("cluster.routing.allocation.disk.threshold_enabled", false);
        });
        runner.build(OpenSearchRunner.newConfigs().basePath(args[0]).numOfNode(1).clusterName("engines").useLogger());
        Thread.currentThread().join();
    }
}
